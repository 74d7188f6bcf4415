"""Directives in a batch script's leading comments: #IRIAI, #SBATCH, #PBS. Pure."""
