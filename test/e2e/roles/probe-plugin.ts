import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A plugin that can be told what to do in which role. `setting` is shown as a metric. The files crash-ROLE and hang-ROLE in `signals` make
 * that role crash or stop answering. At the log level `debug` each role says every 20 ms that it runs.
 */
const SOURCE = `
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { API_VERSION, definePlugin, reloadable, Type } from 'parhelion/plugin';

export default definePlugin({
  id: 'probe',
  apiVersion: API_VERSION,
  summary: 'does what tests want',
  config: Type.Object(
    {
      setting: Type.Integer({ default: 1, description: 'shown as a metric' }),
      ownSetting: reloadable(Type.Integer({ default: 1, description: 'shown as a metric, read at each scrape' })),
      signals: Type.String({ default: '', description: 'folder of the signal files' }),
    },
    { additionalProperties: false, default: {} },
  ),
  provision({ config, roles, metrics, log, check, onStart, onStop }) {
    metrics.gauge('setting', 'the setting in force').set(config.setting);
    metrics.observe('own_setting', 'the reloadable setting in force', () => config.ownSetting);
    const [role] = roles;
    let timer;
    check('probe', async () => ({ ok: true, detail: 'fine' }));
    onStart(() => {
      timer = setInterval(() => {
        if (existsSync(join(config.signals, 'crash-' + role))) throw new Error('the probe crashes on purpose');
        while (existsSync(join(config.signals, 'hang-' + role)));
        log.debug({}, 'the probe runs');
      }, 20);
    });
    onStop(() => clearInterval(timer));
  },
});
`;

/** Writes the plugin below `dir`; returns the path for the list of plugins. */
export function writeProbePlugin(dir: string): string {
  const folder = join(dir, 'probe');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'index.js'), SOURCE);
  return folder;
}
