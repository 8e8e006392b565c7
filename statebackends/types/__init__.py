"""What is known of serializers beyond their bytes: parts, names of classes, one type for several."""
