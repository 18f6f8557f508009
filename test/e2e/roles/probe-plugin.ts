import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A plugin that can be told what to do in which role. `setting` is shown as a metric; a reload is refused in the role `refusedBy`. The files
 * crash-ROLE and hang-ROLE in `signals` make that role crash or stop answering.
 */
const SOURCE = `
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { API_VERSION, definePlugin, Type } from 'parhelion/plugin';

export default definePlugin({
  id: 'probe',
  apiVersion: API_VERSION,
  summary: 'does what tests want',
  config: Type.Object(
    {
      setting: Type.Integer({ default: 1, description: 'shown as a metric' }),
      refusedBy: Type.String({ default: '', description: 'role that refuses a reload' }),
      signals: Type.String({ default: '', description: 'folder of the signal files' }),
    },
    { additionalProperties: false, default: {} },
  ),
  provision({ config, roles, metrics }) {
    const setting = metrics.gauge('setting', 'the setting in force');
    setting.set(config.setting);
    const [role] = roles;
    let timer;
    return {
      checks: [{ name: 'probe', run: async () => ({ ok: true, detail: 'fine' }) }],
      start() {
        timer = setInterval(() => {
          if (existsSync(join(config.signals, 'crash-' + role))) throw new Error('the probe crashes on purpose');
          while (existsSync(join(config.signals, 'hang-' + role)));
        }, 20);
      },
      stop() {
        clearInterval(timer);
      },
      reload(next) {
        if (next.refusedBy === role) throw new Error('refused on purpose');
        setting.set(next.setting);
      },
    };
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
