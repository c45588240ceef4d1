"""Trained models: load them, predict with them, save them, and hand them to other programs."""

from coteach.model.trained import Model, load_model

__all__ = ["Model", "load_model"]
