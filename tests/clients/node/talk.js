// What the client programs beside it share: the talk with the test that runs them (../restartable.py).
import readline from "node:readline";

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test for something and waits until it is done. */
export async function ask(what) {
  console.log(what);
  await input.next();
}
