"""What a batch script says about itself in its leading comments: #IRIAI, #SBATCH, #PBS. Pure."""
