"""When tasks give way to the owner of a machine (docs/spec/016; paper 003, section 3.3)."""
