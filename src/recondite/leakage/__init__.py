"""What releases can reveal: Bayes' capacity, mutual information, Fisher information, ReRo."""
