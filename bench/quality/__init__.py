"""Quality on data whose best known results are known, and on synthetic data that shows one thing at a time."""
