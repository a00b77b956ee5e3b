// Package chaos holds the proof of the promise that a message which was
// acknowledged is answered, once and in order. Its tests are a black box: a
// real redis-server, several processes of the built bot, stand-ins for the
// channel and for the model, and people who write. Processes are killed, paused
// and restarted, the channel's connector and Redis go away; everything that was
// seen is then held against what was promised. Some of the people read answers
// while they are written, in messages that grow: each is to end as the reply of
// the plan that ran, once. Others decide about approvals, at the same time: each is
// to have one outcome, and what runs enough approvals. They
// write in many threads of a channel, several messages within a moment, and stop what
// they asked for at any time.
//
// The tests need Linux and redis-server. Without redis-server they are skipped,
// but not where PLANBOT_TEST_REDIS_URL says that real servers are there. They
// take the bot in BOT_BIN, else they build it. At full length, by hand:
//
//	go test -timeout 0 -v -run Killed -artifacts ./e2e/chaos -load 10m -seed 7
//
// With -load people write for so long in each test that breaks things; -seed
// chooses when what is broken; -artifacts keeps the logs of all processes.
package chaos
