"""A classifier for scikit-learn's world that learns from labels some of which are wrong."""

from coteach.estimator.classifier import NoisyLabelClassifier

__all__ = ["NoisyLabelClassifier"]
