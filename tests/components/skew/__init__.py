"""Tests of the comparison of served with logged features."""
