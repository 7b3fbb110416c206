"""The lossless experiment: the distribution test, with correct rules and with mutants."""
