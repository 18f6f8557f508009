/**
 * `npm run agave -- --rounds 200 [--seed N] [--node 4.4/alpenglow]`: the suites on real Agave nodes, one release and consensus after the
 * other, with so many rounds of sockets that break.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const NODES = ['4.2/towerbft', '4.2/alpenglow', '4.4/towerbft', '4.4/alpenglow', '4.5/alpenglow'];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '200' },
    seed: { type: 'string' },
    node: { type: 'string', multiple: true, default: NODES },
  },
});
for (const node of values.node) {
  console.log(`Agave ${node}`);
  const { status } = spawnSync('npm', ['test', '--', 'conformance/agave'], {
    stdio: 'inherit',
    env: {
      ...process.env,
      REQUIRE_AGAVE: '1',
      PARHELION_AGAVE: node,
      PARHELION_AGAVE_ROUNDS: values.rounds,
      PARHELION_TEST_TIMEOUT_MS: '7200000',
      ...(values.seed === undefined ? {} : { PARHELION_SEED: values.seed }),
    },
  });
  if (status !== 0) process.exitCode = status ?? 1;
}
