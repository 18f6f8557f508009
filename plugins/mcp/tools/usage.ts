import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, defineTool } from '../tool.ts';
import { memberOf } from './answers.ts';

export const usageTool = defineTool({
  name: 'usage',
  title: 'Usage of the key',
  description: 'Credits that the project of this key has left, and what it used in this credit cycle by product.',
  isOwnData: true,
  input: Type.Object({}, { additionalProperties: false }),
  data: answered({ usage: anything('The usage record') }),
  async run(_input, calls) {
    const usage = await calls.get(`/v0/admin/projects/${encodeURIComponent(calls.projectId)}/usage`);
    const [left, used] = [memberOf(usage, 'creditsRemaining'), memberOf(usage, 'creditsUsed')];
    return { summary: `${String(left)} credits left, ${String(used)} used in this cycle.`, data: { usage } };
  },
});
