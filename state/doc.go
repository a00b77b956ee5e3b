// Package state keeps what a bot remembers between turns, in Redis.
//
// A [Scope] is one document: a conversation's, a user's, or a temporary one.
// It holds named JSON values, reached as live typed pointers with [Of] and
// [At]. [Redis.Load] reads the scopes of a turn in one round trip,
// [Redis.Save] writes the changed ones in one, each only if nobody else wrote
// it meanwhile.
//
// A document is one Redis string: a header line with the format, a random
// version and the time of writing, then one line per value, its name and its
// compact JSON. It can be read with redis-cli GET, its size is bounded by the
// command that reads it, and only the values that are asked for are decoded.
//
// [Open] takes a URL of a server, a cluster or a group of sentinels;
// [OpenEmbedded] runs a Redis inside the process and goes through the same code.
package state
