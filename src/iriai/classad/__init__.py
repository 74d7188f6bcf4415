"""ClassAd expressions over machines and jobs: what is understood, what it means, and at speed.

The language and the truth are those of HTCondor's own library (`truth`); docs/spec/007.
"""
