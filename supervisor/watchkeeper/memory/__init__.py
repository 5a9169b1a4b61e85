"""The long-term store: facts that outlive the view of a conversation, and runs."""
