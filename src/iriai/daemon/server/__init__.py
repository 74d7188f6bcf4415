"""How clients are served in turns, so that none of them waits long for what another asks."""
