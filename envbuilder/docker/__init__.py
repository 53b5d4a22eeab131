"""What turns a plan into something that runs. One module owns each program it talks to."""
