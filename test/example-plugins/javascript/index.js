import { API_VERSION, definePlugin, RequestError, Type, text } from 'parhelion/plugin';

/** The smallest useful plugin: one open route that greets, and refuses one name. */
export default definePlugin({
  id: 'hello',
  apiVersion: API_VERSION,
  summary: 'greets',
  config: Type.Object(
    { greeting: Type.String({ default: 'hello', description: 'word in front of the name' }) },
    { additionalProperties: false, default: {} },
  ),
  provision({ http, config }) {
    http.route({
      method: 'GET',
      path: '/v0/hello/:name',
      summary: 'A greeting',
      tag: 'hello',
      auth: 'none',
      errors: 'plain',
      replies: { 200: Type.String() },
      handler({ params }) {
        if (params.name === 'nobody') throw new RequestError(404, 'nobody is not here');
        return text(`${config.greeting}, ${params.name}`);
      },
    });
  },
});
