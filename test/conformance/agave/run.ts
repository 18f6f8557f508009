/** `npm run agave -- --rounds 200 [--seed N]`: the suites on a real Agave node, with so many rounds of sockets that break. */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '200' }, seed: { type: 'string' } },
});
const { status } = spawnSync('npm', ['test', '--', 'conformance/agave'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    REQUIRE_AGAVE: '1',
    PARHELION_AGAVE_ROUNDS: values.rounds,
    PARHELION_TEST_TIMEOUT_MS: '7200000',
    ...(values.seed === undefined ? {} : { PARHELION_SEED: values.seed }),
  },
});
process.exitCode = status ?? 1;
