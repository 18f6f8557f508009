/** The daemon of the rows about assets, in a process of its own: `FOLDER OWNERS`. Its node knows nothing: all answers are of the index. */
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { ownerKey } from './das-world.ts';
import { PROXY_KEY } from './proxy-answers.ts';

const [folder, owners] = process.argv.slice(2) as [string, string];
const node = await startUpstream();
const daemon = await startDaemon({
  key: PROXY_KEY,
  dataDir: folder,
  chain: { rpcUrl: node.url },
  config: {
    plugins: ['access', 'das'],
    follow: { enabled: false },
    das: { follow: { owners: Array.from({ length: Number(owners) }, (_, at) => ownerKey(at)) } },
  },
});
process.once('disconnect', () => process.exit(0));
process.send?.({ port: Number(new URL(daemon.apiUrl).port) });
