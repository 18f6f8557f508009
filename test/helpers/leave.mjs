/**
 * Node 20 can spin for ever while it frees the handles of sockets that were reset in mid-flight, after everything is done. A test process
 * that has had nothing to do several times in a row therefore leaves by `process.exit`, which frees nothing one by one.
 */
const QUIET_TURNS = 4;
let turns = 0;
process.on('beforeExit', () => {
  turns += 1;
  if (turns > QUIET_TURNS) process.exit();
  setTimeout(() => {}, 30);
});
