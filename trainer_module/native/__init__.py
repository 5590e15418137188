"""Operations of our own in C++, where TensorFlow's cost a step more than their work."""
