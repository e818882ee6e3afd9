"""Performs what subscriptions and their consumers do, Key_Shared ones among them."""
