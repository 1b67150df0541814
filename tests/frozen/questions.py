"""What the frozen answers answer: command lines of `roofline`, by family; each is run with `--json`.

`FOLDER` has a database of the example runs (`cpu.sqlite`) and of recorded nights (`nights.sqlite`).
"""

from __future__ import annotations

from itertools import product

CHIPS = (
    "gb10", "b10", "b200", "b300", "gb200", "h100-sxm", "h100-pcie", "h200-sxm", "a100-sxm-80gb", "a100-sxm-40gb", "l4",
    "l40s", "rtx-4090", "rtx-5090", "rtx-pro-6000", "orin-agx-64gb", "thor-t5000", "mi300x", "epyc.toml",
)  # fmt: skip
MAIN_CHIPS = ("gb10", "h100-sxm", "b200", "a100-sxm-80gb", "rtx-4090", "orin-agx-64gb", "mi300x", "epyc.toml")
SHAPES = ("-M 1 -N 4096 -K 4096", "-M 16 -N 1024 -K 8192", "-M 333 -N 1000 -K 777", "-M 4096 -N 4096 -K 4096")
"""Decode to prefill; one fits no tile."""
FORMATS = (
    "BF16,FP32,FP8,MXFP8,INT8,NVFP4,MXFP4,INT4.INT4,FP8.BF16,INT8.BF16,INT4.BF16,NVFP4.BF16,NF4.BF16,FP8_E5M2.FP8,MXFP6"
)
HEADS = "--heads 32 --kv-heads 8 --head-dim 128"
ATTENTIONS = (
    f"{HEADS} --kv-len 4096",
    f"{HEADS} --kv-len 32768 --batch 16 --formats BF16,FP8.BF16,NVFP4.BF16,INT4.BF16",
    f"{HEADS} --kv-len 8192 --window 1024 --page-tokens 16",
    f"{HEADS} --q-len 2048 --causal --kernel fa2",
    "--heads 16 --head-dim 64 --q-len 333 --kv-len 1000 --causal --formats BF16,FP8",
)
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "gemma-3-4b")
PASSES = ("--batch 1,32", "--phase prefill --context 2048")
OF_A_MODEL = (
    "--model llama-3.1-8b --formats BF16,INT4.BF16,FP8,NVFP4,INT8.INT8.INT8",
    "--model qwen2.5-7b --context 32768 --batch 8 --kv NVFP4",
    "--model llama-3.1-8b --formats BF16 --set ffn=INT4.BF16 --set o_proj@0-3=FP8",
    "--model llama-3.1-70b --tensor-parallel 4 --link-gb-s 450",
    "--model llama-3.1-8b --phase prefill --context 4096 --new-tokens 256",
)
LIMITS = (
    "",
    "--memory-limit-gb 6",
    "--max-latency-ms 5",
    "--max-quality-loss 0",
    "--memory-limit-gb 12 --memory-headroom 0.1 --max-quality-loss 5",
    "--formats FP8,INT4.BF16,NVFP4,BF16.BF16.FP8,NF4.BF16",
    "--traffic decode:batch=8,share=9 --traffic prefill:context=2048",
)
NIGHT_CHIPS = ("gb10", "h100-sxm", "b10")
NIGHTLY_CASES = [f"{N}-w16a16-BF16.BF16-matmul-cold" for N in ("1x4096x4096", "1x2048x4096", "1x512x4096")]

QUESTIONS: dict[str, list[str]] = {
    "product": [f"predict gemm {shape} --hw {chip} --formats {FORMATS}" for chip, shape in product(CHIPS, SHAPES)],
    "attention": [f"predict attention {call} --hw {chip}" for chip, call in product(MAIN_CHIPS, ATTENTIONS)],
    "block": [f"predict ffn --hidden 4096 --ffn-dim 14336 --tokens 64 --hw {chip}" for chip in MAIN_CHIPS],
    "model": [
        *(
            f"predict model --model {name} {step} --hw {chip}"
            for chip in MAIN_CHIPS
            for name in MODELS
            for step in PASSES
        ),
        *(f"predict model {asked} --hw {chip}" for chip, asked in product(MAIN_CHIPS, OF_A_MODEL)),
    ],
    "tiling": [
        f"tiling {shape} --hw {chip} --formats {pair}"
        for chip, shape, pair in product(MAIN_CHIPS[:-1], SHAPES[1:], ("BF16", "INT4.BF16"))
    ],
    "recommend": [f"recommend {shape} --hw {chip}" for chip, shape in product(MAIN_CHIPS, (SHAPES[0], SHAPES[3]))],
    "recommend_model": [
        *(f"recommend --model {name} --hw {chip}" for chip, name in product(MAIN_CHIPS, MODELS)),
        *(f"recommend --model llama-3.1-8b {limit} --hw {chip}" for chip, limit in product(MAIN_CHIPS[:4], LIMITS)),
    ],
    "catalog": ["formats", "hardware list", *(f"hardware show {chip}" for chip in CHIPS[:-1])],
    "sweep": [f"sweep -M 1:4096:*4 -N 4096 -K 4096,11008 --hw {chip}" for chip in MAIN_CHIPS],
    "stored": [
        "runs --db cpu.sqlite",
        "runs --db nights.sqlite",
        *(f"show {run} --db cpu.sqlite" for run in ("quick", "calibrated", "model_quant")),
        *(f"show {chip}-{number} --db nights.sqlite" for chip, number in product(NIGHT_CHIPS, range(5))),
        *(f"recommend --stored --db cpu.sqlite {limit}" for limit in ("", LIMITS[3], "--op gemv")),
        *(f"recommend --stored --db nights.sqlite --hw {chip}" for chip in NIGHT_CHIPS),
    ],
    "diff": [
        *(
            f"diff {chip}-{after - 1} {chip}-{after} --db nights.sqlite {gate}"
            for chip, after, gate in product(NIGHT_CHIPS, range(1, 5), ("", "--fail-on slower:5% --max-ambiguous 2"))
        ),
        "diff quick calibrated --db cpu.sqlite --allow torch --allow method_version",
        "diff gb10-0 h100-sxm-0 --db nights.sqlite",
    ],
    "history": [
        f"history {case} --metric {metric} --db history.sqlite"
        for case, metric in product(NIGHTLY_CASES, ("time", "energy", "error"))
    ],
}
