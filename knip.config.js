import { readFileSync } from 'node:fs';

const suites = JSON.parse(readFileSync(new URL('./test/packages/package.json', import.meta.url), 'utf8'));

export default {
  entry: [
    'src/cli/main.ts',
    'src/cli/commands/*.ts',
    'src/ledger/encode-thread.ts',
    'src/adapters/chain/finality/check-thread.ts',
    'packages/local-chain/child.ts',
    'src/adapters/clickhouse/chdb-child.ts',
    'src/cli/worker.ts',
    'plugins/*/index.ts',
    'plugins/dashboard/app/main.tsx',
    'plugins/dashboard/app/build.mjs',
    'src/http/reference/guide/{build.mjs,guide.js}',
    'src/http/reference/page/docs.js',
    '{src,plugins,packages,test}/**/*.test.ts',
    'test/**/*-thread.ts',
    'test/bench/rows/*.ts',
    'test/bench/samples/*.ts',
    'test/simulation/*/run.ts',
    'test/helpers/*.mjs',
    'test/packaging/*.mjs',
    'packaging/*.mjs',
    'test/conformance/clients/*.{ts,mjs}',
    'test/bench/run.ts',
    'test/helpers/light/fetch-prover.ts',
  ],
  project: [
    'src/**/*.ts',
    'plugins/**/*.{ts,tsx}',
    'packages/**/*.ts',
    'test/**/*.ts',
  ],
  ignore: ['test/example-plugins/**'],
  ignoreDependencies: [
    // Those of test/packages, which has a manifest of its own.
    ...Object.keys(suites.dependencies),
    '@metaplex-foundation/.+',
    '@solana/spl-token-registry',
    '@solana/wallet-adapter-base',
    // The build reads the icons that the pages use into a module of this name.
    '@iconify-json/lucide',
    'icon-bodies',
    // The product loads it by name where an operator has installed it; here it is for the tests.
    'nodemailer',
  ],
  ignoreBinaries: [
    'mount',
    'java',
    'clickhouse-server',
    'openssl',
    'setpriv',
    'umount',
    'strace',
    'unshare',
    'dpkg-deb',
    'parhelion',
    'systemd-notify',
    'systemd-analyze',
    'groff',
    'script',
  ],
  rules: { types: 'off', exports: 'warn' },
};
