"""Fixtures and settings for all tests."""

import os
import signal

import pytest

# A program started in the background ignores Ctrl-C, and so would the tests for it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def many(examples):
    """The number of examples that hypothesis tries: eight times as many with `.ci/python --full`."""
    return examples * (8 if os.environ.get("B2KIT_FULL") else 1)


PIPELINES = ["zarr.core.codec_pipeline.BatchedCodecPipeline", "zarr.core.codec_pipeline.FusedCodecPipeline"]


@pytest.fixture(params=PIPELINES, ids=["batched", "fused"])
def pipeline(request):
    """Each of zarr-python's two pipelines."""
    import zarr

    with zarr.config.set({"codec_pipeline.path": request.param}):
        yield request.param
