"""Commands about the cluster: members, tokens, operators, trust."""
