package rdb

import "github.com/redis/go-redis/v9"

// Underlying is the client of a reader.
func Underlying(r Reader) redis.UniversalClient { return r.(*reader).client }
