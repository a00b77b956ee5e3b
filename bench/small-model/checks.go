package main

import "context"

func (b *bench) checkWire(ctx context.Context) int { return 0 }
