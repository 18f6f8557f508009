/**
 * The modules of the house, from the bottom up. Each may import itself, `below`, and what it names here.
 * `solana` stands beside them: chain knowledge without I/O.
 */
const base = ['lib', 'ports', 'runtime'];
const modules = {
  lib: [],
  ports: ['lib'],
  runtime: ['lib', 'ports'],
  config: base,
  plugin: [...base, 'config'],
  budgets: [...base, 'plugin'],
  store: [...base, 'config'],
  jobs: [...base, 'config', 'plugin'],
  http: [...base, 'config', 'plugin', 'budgets'],
  ledger: [...base, 'solana'],
  'joined-history': [...base],
  chain: [...base, 'config', 'plugin', 'ledger'],
  adapters: [...base, 'config', 'plugin', 'budgets', 'solana'],
  daemon: [...base, 'config', 'plugin', 'budgets', 'store', 'jobs', 'http', 'chain', 'ledger', 'joined-history'],
  cli: [...base, 'config', 'plugin', 'store', 'http', 'chain', 'ledger', 'adapters', 'daemon', 'solana'],
};
/** Products beside the core, with what each may import of it, and the modules that may start one. */
const packages = {
  'local-chain': { imports: ['lib', 'ports', 'solana'], from: ['cli'] },
  portable: { imports: [...base, 'solana', 'ledger'], from: ['cli'] },
};
const floors = Object.entries(modules).map(([name, below]) => ({
  name: `floor-of-${name}`,
  severity: 'error',
  from: { path: `^src/${name}[./]` },
  to: { path: '^(src|plugins|test)/', pathNot: `^src/(${[name, ...below].join('|')})[./]` },
}));
const besideTheCore = Object.entries(packages).flatMap(([name, { imports, from }]) => [
  {
    name: `what-${name}-imports`,
    severity: 'error',
    from: { path: `^packages/${name}/` },
    to: { path: '^(src|plugins|packages|test)/', pathNot: [`^packages/${name}/`, `^src/(${imports.join('|')})/`] },
  },
  {
    name: `who-uses-${name}`,
    severity: 'error',
    from: { path: '^(src|plugins)/', pathNot: `^src/(${from.join('|')})/` },
    to: { path: `^packages/${name}/` },
  },
]);
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
    { name: 'no-cycles-between-folders', scope: 'folder', severity: 'error', from: {}, to: { circular: true } },
    ...floors,
    ...besideTheCore,
    {
      name: 'packages-only-by-their-door',
      severity: 'error',
      from: { path: '^(src|plugins)/' },
      to: { path: '^packages/', pathNot: '^packages/[^/]+/index\\.ts$' },
    },
    {
      name: 'packages-only-when-they-are-used',
      comment: 'a start loads none of them; types cost nothing',
      severity: 'error',
      from: { path: '^(src|plugins)/' },
      to: { path: '^packages/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    floor('solana-is-pure', '^src/solana/', '^src/(solana|lib)/|^src/ports/(block|parsers)\\.ts$', 'chain knowledge, no I/O; types of blocks and of parser settings only'),
    floor('plugins-floor', '^plugins/', '^plugins/|^src/(ports|solana|lib|runtime)/|^src/plugin/(plugin|request|host)\\.ts$', 'plugins see the plugin API, ports, runtime, solana and lib'),
    {
      name: 'plugins-never-import-each-other',
      severity: 'error',
      from: { path: '^plugins/([^/]+)/' },
      to: { path: '^plugins/', pathNot: '^plugins/$1/' },
    },
    {
      name: 'litesvm-only-behind-its-guard',
      severity: 'error',
      from: { path: '^(src|plugins|packages)/', pathNot: '^packages/local-chain/vm/' },
      to: { path: '(^|/)litesvm' },
    },
    {
      name: 'sqlite-only-in-the-version-for-this-node',
      severity: 'error',
      from: { path: '^(src|plugins|packages)/', pathNot: '^src/store/sqlite-connection\\.ts$' },
      to: { path: '(^|/)better-sqlite3', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'web3-off-the-ingest-path',
      comment: 'messages are decoded by src/solana; web3.js serves the local chain, and a client command that pays',
      severity: 'error',
      from: { path: '^(src|plugins|packages)/', pathNot: '^(packages/local-chain|src/cli/signup)/' },
      to: { path: '(^|/)@solana/web3\\.js/' },
    },
    {
      name: 'no-development-dependencies-at-run-time',
      comment: 'the pages of the dashboard and of the guide are made for the built tree',
      severity: 'error',
      from: { path: '^(src|plugins|packages)/', pathNot: '^(plugins/dashboard/app|src/http/reference/guide)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'], pathNot: 'node_modules/@types/' },
    },
    { name: 'only-what-resolves', severity: 'error', from: {}, to: { couldNotResolve: true, pathNot: '^(parhelion/|icon-bodies$)' } },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '\\.test\\.ts$|^(dist|data)/|^test/example-plugins/|^test/helpers/surfpool/node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default', 'types'] },
  },
};
