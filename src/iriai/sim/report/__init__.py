"""Pages and plots of simulations."""
