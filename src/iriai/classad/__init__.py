"""ClassAd expressions over machines and jobs: parsing, meaning, and fast evaluation.

The language and the answers are those of HTCondor's own library (`reference_evaluator`). See
docs/spec/007-matching.md.
"""
