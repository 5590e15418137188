"""TFMA's extractors, but the predictions of a model with one output keep the output's name.

TFMA drops that name, so that a ranker of one task could not be evaluated by task name, nor compared with a model of
several tasks: `prefer_dict_outputs` is out of reach of the public PredictionsExtractor.
https://github.com/tensorflow/model-analysis/blob/v0.47.0/tensorflow_model_analysis/extractors/predictions_extractor.py
"""

from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.extractors import predictions_extractor
from tensorflow_model_analysis.utils import model_util


def custom_extractors(eval_shared_model: Any, eval_config: tfma.EvalConfig, tensor_adapter_config: Any) -> list[Any]:
    """Returns TFMA's default extractors with the predictions as a dict in every case; TFX calls it by name."""
    models = {model.model_name: model for model in model_util.verify_and_update_eval_shared_models(eval_shared_model)}
    specs = list(eval_config.model_specs)
    inference = model_util.ModelSignaturesDoFn(
        model_specs=specs,
        eval_shared_models=models,
        output_keypath=[tfma.PREDICTIONS_KEY],
        signature_names={"" if len(specs) == 1 else spec.name: [spec.signature_name] for spec in specs},
        prefer_dict_outputs=True,
    )
    predictions = tfma.extractors.Extractor(
        stage_name=predictions_extractor.PREDICTIONS_EXTRACTOR_STAGE_NAME, ptransform=beam.ParDo(inference)
    )
    extractors: list[Any] = tfma.default_extractors(
        eval_shared_model=eval_shared_model,
        eval_config=eval_config,
        tensor_adapter_config=tensor_adapter_config,
        custom_predict_extractor=predictions,
    )
    return extractors
