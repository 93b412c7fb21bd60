"""The JSON API, one file for each noun: every route checks what the asker may and hands on to the plane."""
