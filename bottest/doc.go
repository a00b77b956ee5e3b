// Package bottest tests bots with no model, no Azure and no Teams.
//
// A [Kit] is a bot between stand-ins: a model that says what the test wrote down, a
// connector that keeps what the bot sends, and a Redis inside the process. Between
// them is all of the bot, its HTTP door included; each is spoken to over HTTP, in the
// formats of the real ones.
//
//	bottest.Test(t, bottest.Config{New: newBot}, func(t *testing.T, kit *bottest.Kit) {
//		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk.")))
//		chat := kit.Personal("Mia")
//		chat.Say("add milk to groceries")
//		chat.Expect("Added milk.")
//	})
//
// [Test] runs in a bubble of [testing/synctest], over connections in memory: waits of
// the bot, of its retries and of the stand-ins cost no more than the computing that is
// done meanwhile: a model that hangs for two minutes nothing, a day in which nothing
// happens part of a second. [New] is for tests that cannot live in a
// bubble; it works over loopback and in real time.
//
// What a test sets up has to be met, and what the bot says has to be looked at. At its end a
// test fails for answers of the model that were not asked for, faults and crashes that did
// not come, and messages that no Expect or Next took: unless it asked for all of them
// ([Chat.Messages], [Connector.Sent]), or has failed already.
//
// A test that fails, also by an Error of its own, shows the conversation, what the model was
// asked and answered, and the state.
package bottest
