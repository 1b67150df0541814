"""Small files in the true layout of other programs, their numbers invented."""

from __future__ import annotations

import csv
import io
from typing import Any

LLAMA: dict[str, Any] = {
    "build_commit": "0a1b2c3d", "build_number": 7000, "cpu_info": "A CPU", "gpu_info": "NVIDIA H100 80GB HBM3",
    "backends": "CUDA", "model_filename": "models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
    "model_type": "llama 8B Q4_K - Medium", "model_size": 4_912_898_304, "model_n_params": 8_030_261_312,
    "n_batch": 2048, "n_ubatch": 512, "n_threads": 8, "cpu_mask": "0x0", "cpu_strict": False, "poll": 50,
    "type_k": "f16", "type_v": "f16", "n_gpu_layers": 99, "n_cpu_moe": 0, "split_mode": "layer", "main_gpu": 0,
    "no_kv_offload": False, "flash_attn": 1, "devices": "auto", "tensor_split": "0.00",
    "tensor_buft_overrides": "none", "load_mode": "mmap", "embeddings": False, "no_op_offload": 0, "no_host": False,
}  # fmt: skip


def llama_test(
    prompt: int = 0, new: int = 0, depth: int = 0, samples_ns: tuple[int, ...] = (), **changes: Any
) -> dict[str, Any]:
    """A test as JSON: samples in ns of a whole repetition."""
    tokens, mean = prompt + new, sum(samples_ns) // len(samples_ns)
    return {
        **LLAMA,
        "n_prompt": prompt,
        "n_gen": new,
        "n_depth": depth,
        "test_time": "2026-03-02T10:00:00Z",
        "avg_ns": mean,
        "stddev_ns": 1000,
        "avg_ts": tokens * 1e9 / mean,
        "stddev_ts": 0.25,
        **changes,
        "samples_ns": list(samples_ns),
        "samples_ts": [tokens * 1e9 / sample_ns for sample_ns in samples_ns],
    }


PP = llama_test(prompt=512, samples_ns=(50_100_000, 49_900_000, 50_000_000))
TG = llama_test(new=128, samples_ns=(801_000_000, 799_000_000, 800_000_000), test_time="2026-03-02T10:00:05Z")

MARKDOWN = """\
ggml_cuda_init: found 1 CUDA devices:
| model                          |       size |     params | backend    | ngl | fa |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | -: | --------------: | -------------------: |
| llama 8B Q4_K - Medium         |   4.58 GiB |     8.03 B | CUDA       |  99 |  1 |           pp512 |     10240.00 ± 20.00 |
| llama 8B Q4_K - Medium         |   4.58 GiB |     8.03 B | CUDA       |  99 |  1 |   tg128 @ d4096 |        150.00 ± 0.20 |
| llama 8B Q4_K - Medium         |   4.58 GiB |     8.03 B | CUDA       |  99 |  1 |     pp512+tg128 |        700.00 ± 0.20 |

build: 0a1b2c3d (7000)
"""

SERVE: dict[str, Any] = {
    "date": "20260302-101500", "endpoint_type": "vllm", "backend": "vllm", "label": None,
    "model_id": "meta-llama/Llama-3.1-8B-Instruct", "tokenizer_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 200, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16, "duration": 100.0,
    "completed": 200, "failed": 0, "total_input_tokens": 204_800, "total_output_tokens": 25_600,
    "request_throughput": 2.0, "request_goodput": None, "output_throughput": 256.0, "total_token_throughput": 2304.0,
    "mean_ttft_ms": 300.0, "median_ttft_ms": 290.0, "std_ttft_ms": 20.0, "p99_ttft_ms": 400.0, "mean_tpot_ms": 9.0,
    "median_tpot_ms": 8.9, "std_tpot_ms": 0.3, "p99_tpot_ms": 10.0, "mean_itl_ms": 9.0, "median_itl_ms": 8.8,
    "std_itl_ms": 1.0, "p99_itl_ms": 20.0,
}  # fmt: skip

OLD_SERVE: dict[str, Any] = {
    "date": "20240612-101500", "backend": "vllm", "model_id": "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8",
    "tokenizer_id": "any", "best_of": 1, "use_beam_search": False, "num_prompts": 200, "request_rate": 4.0,
    "duration": 50.0, "completed": 200, "total_input_tokens": 40_000, "total_output_tokens": 20_000,
    "request_throughput": 4.0, "input_throughput": 800.0, "output_throughput": 400.0, "mean_ttft_ms": 30.0,
    "median_ttft_ms": 29.0, "p99_ttft_ms": 90.0, "mean_tpot_ms": 7.0, "median_tpot_ms": 6.9, "p99_tpot_ms": 9.0,
}  # fmt: skip

LATENCY = {
    "avg_latency": 1.2,
    "std_latency": 0.01,
    "latencies": [1.19, 1.2, 1.21],
    "percentiles": {"10": 1.19, "50": 1.2},
}
LATENCY_WITH_ARGUMENTS = [
    {
        "benchmark": {
            "name": "vLLM benchmark",
            "extra_info": {
                "args": {
                    "model": "meta-llama/Llama-3.1-8B-Instruct",
                    "batch_size": 8,
                    "input_len": 1024,
                    "output_len": 128,
                    "tensor_parallel_size": 1,
                    "dtype": "auto",
                }
            },
        },
        "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
        "metric": {"name": "latency", "benchmark_values": [1.19, 1.2, 1.21], "extra_info": {"avg_latency": 1.2}},
    }
]
THROUGHPUT = {
    "elapsed_time": 10.5,
    "num_requests": 100,
    "total_num_tokens": 50_000,
    "requests_per_second": 9.52,
    "tokens_per_second": 4761.9,
}

PYTEST_BENCHMARK: dict[str, Any] = {
    "machine_info": {
        "node": "box",
        "processor": "x86_64",
        "machine": "x86_64",
        "python_implementation": "CPython",
        "python_version": "3.11.7",
        "system": "Linux",
        "release": "6.1",
        "cpu": {"brand_raw": "A CPU", "count": 8},
    },
    "commit_info": {"id": "c0ffee" + "0" * 34, "time": "2026-03-01T09:00:00+00:00", "dirty": True, "branch": "main"},
    "benchmarks": [
        {
            "group": "sorting",
            "name": "test_sort[1000]",
            "fullname": "tests/test_sort.py::test_sort[1000]",
            "params": {"n": 1000},
            "param": "1000",
            "extra_info": {},
            "options": {"disable_gc": False, "timer": "perf_counter", "min_rounds": 5, "max_time": 1.0},
            "stats": {
                "min": 1e-5,
                "max": 3e-5,
                "mean": 2e-5,
                "stddev": 1e-5,
                "rounds": 3,
                "median": 2e-5,
                "iqr": 1e-5,
                "q1": 1.5e-5,
                "q3": 2.5e-5,
                "iqr_outliers": 0,
                "outliers": "0;0",
                "ops": 50000.0,
                "total": 6e-5,
                "data": [1e-5, 3e-5, 2e-5],
                "iterations": 7,
            },
        },
        {
            "group": None,
            "name": "test_copy",
            "fullname": "tests/test_copy.py::test_copy",
            "params": None,
            "param": None,
            "extra_info": {"size": 3},
            "options": {"timer": "perf_counter"},
            "stats": {
                "min": 1e-4,
                "max": 4e-4,
                "mean": 2.5e-4,
                "stddev": 1e-4,
                "rounds": 50,
                "median": 2e-4,
                "iqr": 1e-4,
                "q1": 1.5e-4,
                "q3": 3e-4,
                "ops": 4000.0,
                "total": 0.0125,
                "iterations": 1,
            },
        },
    ],
    "datetime": "2026-03-01T10:00:00.123456+00:00",
    "version": "5.3.1",
}

TABLE = """\
device,op,phase,m,n,k,batch,q_len,kv_len,heads,kv_heads,head_dim,causal,weight_format,activation_format,kv_format,time_s,source,model,context,n_tokens,note
h100-sxm,gemm,decode,1,4096,4096,,,,,,,,BF16,BF16,,2.0e-05,mine,,,,x
h100-sxm,gemm,decode,16,4096,4096,,,,,,,,INT4,BF16,,1.2e-05,mine,,,,
h100-sxm,attention,decode,,,,4,1,4096,32,8,128,,,BF16,BF16,2.5e-05,mine,,,,
h100-sxm,model,decode,,,,8,,,,,,,BF16,BF16,BF16,0.008,mine,llama-3.1-8b,2048,,
"""


def as_csv(tests: list[dict[str, Any]]) -> str:
    """The same tests as llama-bench prints them with `-o csv`: every cell quoted, flags as 0 and 1."""
    names = [name for name in tests[0] if not name.startswith("samples_")]
    out = io.StringIO()
    out.write(",".join(names) + "\n")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for test in tests:
        writer.writerow([int(test[name]) if isinstance(test[name], bool) else test[name] for name in names])
    return out.getvalue()
