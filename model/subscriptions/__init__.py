"""One tracker of subscriptions for all subscription types: topics, cursors, consumers, and what is due to them."""
