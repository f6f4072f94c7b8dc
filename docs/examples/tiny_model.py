"""A model of your own: uv run tools/compare.py --model docs/examples/tiny_model.py:make_model"""

import keras

from loaders.spec import Schema


def make_model(schema: Schema) -> keras.Model:
    """Float images from 0 to 1 in, one logit for each position and code out."""
    return keras.Sequential(
        [
            keras.Input((schema.height, schema.width, schema.channels)),
            keras.layers.AveragePooling2D(8),
            keras.layers.Flatten(),
            keras.layers.Dense(schema.max_len * schema.num_classes),
            keras.layers.Reshape((schema.max_len, schema.num_classes)),
        ]
    )
