/** The floors of the house. Arrows go downwards only: cli -> adapters -> kernel -> ports -> lib; solana stands beside them. */
const floor = (name, from, allowed, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { path: '^(src|plugins|test)/', pathNot: allowed },
});

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    floor('lib-stands-alone', '^src/lib/', '^src/lib/', 'lib: pure helpers, no I/O, no Solana'),
    floor('ports-are-interfaces', '^src/ports/', '^src/(ports|lib)/', 'ports know only lib'),
    floor('kernel-knows-no-capability', '^src/kernel/', '^src/(kernel|ports|lib)/', 'neither adapters, solana nor plugins'),
    floor('solana-is-pure', '^src/solana/', '^src/(solana|lib)/|^src/ports/block\\.ts$', 'chain knowledge, no I/O; block types only'),
    floor('adapters-floor', '^src/adapters/', '^src/(adapters|kernel|ports|solana|lib)/', 'adapters never import cli or plugins'),
    floor('cli-floor', '^src/cli/', '^src/(cli|adapters|kernel|ports|solana|lib)/', 'the cli finds plugins by path, never by import'),
    floor('plugins-floor', '^plugins/', '^plugins/|^src/(ports|solana|lib)/|^src/kernel/(plugin|request)\\.ts$', 'plugins see the plugin API, ports, solana and lib'),
    {
      name: 'plugins-never-import-each-other',
      severity: 'error',
      from: { path: '^plugins/([^/]+)/' },
      to: { path: '^plugins/', pathNot: '^plugins/$1/' },
    },
    {
      name: 'local-chain-only-by-dynamic-import-from-cli',
      severity: 'error',
      from: { path: '^(src|plugins)/', pathNot: '^src/adapters/chain/local/' },
      to: { path: '^src/adapters/chain/local/', dynamic: false },
    },
    {
      name: 'local-chain-only-from-cli',
      severity: 'error',
      from: { path: '^(src|plugins)/', pathNot: '^src/(adapters/chain/local|cli)/' },
      to: { path: '^src/adapters/chain/local/' },
    },
    {
      name: 'litesvm-only-behind-its-guard',
      severity: 'error',
      from: { path: '^(src|plugins)/', pathNot: '^src/adapters/chain/local/vm' },
      to: { path: '(^|/)litesvm/' },
    },
    {
      name: 'sqlite-only-in-the-version-for-this-node',
      severity: 'error',
      from: { path: '^(src|plugins)/', pathNot: '^src/adapters/store/sqlite/library' },
      to: { path: '(^|/)better-sqlite3', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'web3-off-the-ingest-path',
      comment: 'messages are decoded by src/solana; web3.js serves the local chain, and a client command that pays',
      severity: 'error',
      from: { path: '^(src|plugins)/', pathNot: '^src/(adapters/chain/local|cli/signup)/' },
      to: { path: '(^|/)@solana/web3\\.js/' },
    },
    {
      name: 'no-development-dependencies-at-run-time',
      severity: 'error',
      from: { path: '^(src|plugins)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'], pathNot: 'node_modules/@types/' },
    },
    { name: 'only-what-resolves', severity: 'error', from: {}, to: { couldNotResolve: true, pathNot: '^parhelion/' } },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|data)/|^test/example-plugins/|^test/helpers/surfpool/node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default', 'types'] },
  },
};
