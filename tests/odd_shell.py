"""A shell with settings for other programs: proxies where nobody listens, a cluster that is none of ours."""

ODD_SHELL = {
    **{name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "ALL_PROXY")},
    "PYTHONWARNINGS": "error",
    "PYTHONIOENCODING": "ascii",
    "TF_CONFIG": '{"cluster": {"worker": ["203.0.113.1:2222"]}, "task": {"type": "worker", "index": 1}}',
    "OMP_NUM_THREADS": "abc",
    "KERAS_BACKEND": "torch",
    "TF_USE_LEGACY_KERAS": "0",
}
