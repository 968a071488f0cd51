"""NEXMark: queries 0 to 8 over the persons, auctions and bids of an auction site."""
