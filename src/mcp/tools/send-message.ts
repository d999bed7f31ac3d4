import { changes, type Tool } from './tool.ts'

export const sendMessage: Tool = {
  name: 'send_message',
  title: 'Send a message to an agent',
  description:
    'Sends text to an agent of spawn_agent (not of the built-in SendMessage). While its turn runs the text joins the turn; when it is idle a new turn starts in the same session and workspace. ' +
    "how says which: running_turn, new_turn, or held while its machine is away. Whether it was taken in shows in the result's messages[].",
  annotations: changes,
}
