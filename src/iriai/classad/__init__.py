"""ClassAd expressions over machines and jobs: what is understood, what it means, and at speed.

The language and the answers are those of HTCondor's own library (`reference_evaluator`). See
docs/spec/007-matching.md.
"""
