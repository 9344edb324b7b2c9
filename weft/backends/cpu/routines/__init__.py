"""Operations with algorithms of their own: products, convolutions, sorting, transforms."""
