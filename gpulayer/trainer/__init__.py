"""The user's face: a Trainer that is Lightning's plus one argument, and the same wish as a strategy."""
