"""The contract of the API: every request and answer model, and every endpoint, in one place.

Base `http://127.0.0.1:8000`. All bodies are JSON; all numbers SI with the unit in the name; NaN and infinity never occur
(null instead). `?hardware_key=` names a chip of the catalog (key or alias) or is `auto` (this machine), and defaults to gb10. Unknown fields
are refused.

    POST /api/analyze?hardware_key=      AnalyzeRequest      → ProductPrediction  one product, one pair of formats
    POST /api/recommend?hardware_key=    RecommendRequest    → Recommendation    formats ranked
    POST /api/tiling?hardware_key=       TilingRequest       → TilingAnswer      tile, waves, occupancy, L2
    POST /api/attention?hardware_key=    AttentionRequest    → AttentionPrediction  fused attention (attention.py: `router`)
    POST /api/attention/recommend?hardware_key=  AttentionRecommendRequest → AttentionRecommendation  formats of its cache ranked
    POST /api/sweep?hardware_key=        SweepRequest        → SweepAnswer       grids: columns per chip × formats
    GET  /api/hardware                                       → ServedHardware
    GET  /api/hardware/{key}                                 → HardwareDetail    404 for an unknown chip
    GET  /api/formats                                        → FormatList
    GET  /api/models                                         → ModelList
    POST /api/models/{key}/predict?hardware_key=  ModelPredictRequest → PassPrediction
    POST /api/models/{key}/recommend?hardware_key=  ModelRecommendRequest → ModelRecommendation  plans for a whole model ranked
    GET  /api/recommendations?hardware_key=&model=&phase=&op=&M=&N=&K=&memory_limit_gb=&max_loss_pct=&limit=&offset=
                                                             → StoredRecommendationList  what the stored runs say, with evidence
    GET  /api/runs?limit=&offset=                            → RunList           newest first
    GET  /api/runs/{run}                                     → RunDetail         id prefix, label, latest, latest~1
    GET  /api/runs/{run}/cases?limit=&offset=&words=&status=&case_key= → CaseList
    GET  /api/runs/{run}/report                              → text/html         the report page of the run
    GET  /api/cases/{case_key}/history?metric=&branch=&since= → HistoryAnswer
    GET  /api/diff?before=&after=                            → DiffAnswer
    GET  /api/nvml/status                                    → NvmlStatus
    GET  /api/nvml/stream?interval_s=1&count=                → text/event-stream (below)
    GET  /api/health                                         → Health            never asks for the token
    GET  /api/openapi.json                                   → OpenAPI
    GET  /, /explorer/NAME, /vendor/NAME    the explorer page: every *.css, *.js and *.svg of reports/explorer/ and
                                            reports/page/vendor/, listed at start; never asks for the token; CSP default-src 'self'

Errors are `application/problem+json` (`problem.Problem`): type, title, status, detail, slug, instance and, where a field
is wrong, errors = [{field, location (body, query, path), message}]. 400 no JSON, 401 token, 404 unknown, 413 too large,
415 not JSON, 422 wrong value, 503 database away or too many streams.

The stream sends `event: reading` with an `NvmlStatus` as data every interval_s (at least 0.2 s) until the client goes or
`count` readings were sent; without a GPU one `event: unavailable` (an `NvmlStatus` whose available is false), then it
ends: a page closes its EventSource on it.

Stored answers carry an ETag; send it back as If-None-Match and get 304. With a token every /api/ request but health needs
`Authorization: Bearer TOKEN`. An EventSource cannot send that header: read the stream with fetch. A page gets the token
from the fragment of its own address (`/#token=…`), which browsers never send to a server.
"""

from __future__ import annotations

from reports.api.catalog.catalog_models import (
    Health,
    ModelPredictRequest,
    NvmlReading,
    NvmlStatus,
)
from reports.api.http.problem import FieldProblem, Problem
from reports.api.predict.analysis_models import (
    AnalyzeRequest,
    ProductRequest,
    RecommendRequest,
    SweepAnswer,
    SweepRequest,
    SweepSeries,
    TilingRequest,
)
from reports.api.predict.attention_models import (
    AttentionRecommendRequest,
    AttentionRequest,
)
from reports.api.predict.base_models import Answer, Request
from reports.api.predict.model_advice_models import ModelPlan, ModelRecommendation, ModelRecommendRequest
from reports.api.stored.stored_advice_models import StoredRankingBody, StoredRecommendationList, StoredRowBody
from reports.api.stored.stored_models import CaseBody, CaseList, DiffAnswer, HistoryAnswer, RunBody, RunDetail, RunList

__all__ = [
    "AnalyzeRequest",
    "Answer",
    "AttentionRecommendRequest",
    "AttentionRequest",
    "CaseBody",
    "CaseList",
    "DiffAnswer",
    "FieldProblem",
    "Health",
    "HistoryAnswer",
    "ModelPlan",
    "ModelPredictRequest",
    "ModelRecommendRequest",
    "ModelRecommendation",
    "NvmlReading",
    "NvmlStatus",
    "Problem",
    "ProductRequest",
    "RecommendRequest",
    "Request",
    "RunBody",
    "RunDetail",
    "RunList",
    "StoredRankingBody",
    "StoredRecommendationList",
    "StoredRowBody",
    "SweepAnswer",
    "SweepRequest",
    "SweepSeries",
    "TilingRequest",
]
