"""Who is who: keys and certificates, what operators sign, whom to believe, who may do what."""
