// Package state keeps what a bot remembers between turns, and what it has to do,
// in Redis.
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
// An [Inbox] keeps what came in until it is done with: a queue for each [Lane], of
// which one replica works at a time, whatever becomes of the others. A [Hold] is
// a lane at work; saving through it writes the documents, the turn's journal
// and the queue in one step, and only while the lane is held. A [Timer] becomes an
// item of its lane when it is due, and what cannot be done is put aside as [Parked].
//
// [Open] takes a URL of a server, a cluster or a group of sentinels;
// [OpenEmbedded] runs a Redis inside the process and goes through the same code.
package state
