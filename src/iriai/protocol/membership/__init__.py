"""Who is there: SWIM with Lifeguard."""
