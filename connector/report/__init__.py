"""What people look at and what watches: a page, pictures, and numbers for monitoring."""
